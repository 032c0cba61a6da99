# net/http never uses a proxy for localhost and 127.0.0.0/8, whatever is set.
export http_proxy=@URL@ https_proxy=@URL@ no_proxy=@NO_PROXY@
export HTTP_PROXY=@URL@ HTTPS_PROXY=@URL@ NO_PROXY=@NO_PROXY@
export SSL_CERT_FILE=@CERTIFICATE@
