// Serves files with a package as its documentation shows it: static.cjs PACKAGE ROOT PORT
const http = require("http");
const [, , name, root, port] = process.argv;

const handlers = {
  "serve-static": () => {
    const serve = require("serve-static")(root);
    return (request, response) =>
      serve(request, response, (error) => {
        response.statusCode = error ? error.statusCode || 500 : 404;
        response.end();
      });
  },
  "serve-handler": () => {
    const serve = require("serve-handler");
    return (request, response) => serve(request, response, { public: root });
  },
};
http.createServer(handlers[name]()).listen(Number(port), "127.0.0.1");
