// Fetches the URL of its argument with Crawlee, as it comes, and prints status and body.
const { CheerioCrawler, Configuration } = require("@crawlee/cheerio");

const crawler = new CheerioCrawler(
  {
    maxRequestRetries: 0,
    additionalMimeTypes: ["text/plain"],
    requestHandler: ({ response, body }) => console.log(response.statusCode, String(body)),
    failedRequestHandler: (_, error) => console.log(error.message),
  },
  new Configuration({ persistStorage: false }),
);
crawler.run([process.argv[2]]);
