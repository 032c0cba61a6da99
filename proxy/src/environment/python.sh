export http_proxy=@URL@ https_proxy=@URL@ no_proxy=@NO_PROXY@
export HTTP_PROXY=@URL@ HTTPS_PROXY=@URL@ NO_PROXY=@NO_PROXY@
# requests has a variable of its own; httpx, urllib and the ssl module read SSL_CERT_FILE.
# aiohttp reads the proxy only from ClientSession(trust_env=True).
export REQUESTS_CA_BUNDLE=@CERTIFICATE@
export SSL_CERT_FILE=@CERTIFICATE@
