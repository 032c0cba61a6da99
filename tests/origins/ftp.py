"""An FTP server over a directory, with a user that needs a password: ftp.py ADDRESS PORT ROOT [noanon]. It logs every command."""

import logging
import sys

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer

address, port, root = sys.argv[1], int(sys.argv[2]), sys.argv[3]
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
authorizer = DummyAuthorizer()
authorizer.add_user("user", "p:ss/w", root)
if "noanon" not in sys.argv[4:]:
    authorizer.add_anonymous(root)
FTPHandler.authorizer = authorizer
FTPHandler.auth_failed_timeout = 0
FTPHandler.permit_foreign_addresses = False
FTPServer((address, port), FTPHandler).serve_forever()
