export http_proxy=@URL@ https_proxy=@URL@ no_proxy=@NO_PROXY@
export HTTP_PROXY=@URL@ HTTPS_PROXY=@URL@ NO_PROXY=@NO_PROXY@
# OpenSSL, Go, Python and others: replaces the system's roots. That is safe, because wayleave verifies origins itself.
export SSL_CERT_FILE=@CERTIFICATE@
export CURL_CA_BUNDLE=@CERTIFICATE@
export REQUESTS_CA_BUNDLE=@CERTIFICATE@
export GIT_SSL_CAINFO=@CERTIFICATE@
# Node.js and Deno: in addition to their own roots. Node.js honours the proxy from 22.21 and 24.5 on.
export NODE_EXTRA_CA_CERTS=@CERTIFICATE@
export DENO_CERT=@CERTIFICATE@
export NODE_USE_ENV_PROXY=1
# Java, wget and browsers read none of this: see `wayleave env --client`.
