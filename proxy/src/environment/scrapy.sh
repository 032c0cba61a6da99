# Scrapy's HttpProxyMiddleware is on by default and reads these.
export http_proxy=@URL@ https_proxy=@URL@ no_proxy=@NO_PROXY@
export HTTP_PROXY=@URL@ HTTPS_PROXY=@URL@ NO_PROXY=@NO_PROXY@
# Scrapy verifies no certificate unless settings.py says
#   DOWNLOADER_CLIENTCONTEXTFACTORY = "scrapy.core.downloader.contextfactory.BrowserLikeContextFactory"
# and then trusts what is here:
export SSL_CERT_FILE=@CERTIFICATE@
