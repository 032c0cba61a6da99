"""A collector that reads log records with OpenTelemetry's own Python messages.

Prints its port, then each record as a line of JSON, or why a request is refused.
"""

import http.server

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.receive(body)
        answer = ExportLogsServiceResponse().SerializeToString()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def receive(self, body):
        place = self.path, self.headers["Content-Type"]
        if place != ("/v1/logs", "application/x-protobuf"):
            print("refused", *place, flush=True)
            return 404
        try:
            request = ExportLogsServiceRequest.FromString(body)
        except DecodeError as error:
            print("refused", error, flush=True)
            return 400
        # Fields that these messages do not know are lost here.
        request.DiscardUnknownFields()
        if request.ByteSize() != len(body):
            print("refused: unknown fields", flush=True)
            return 400
        for resource in request.resource_logs:
            for scope in resource.scope_logs:
                for record in scope.log_records:
                    print(MessageToJson(record, indent=None), flush=True)
        return 200

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
