# Scrapy's HttpProxyMiddleware is on by default and reads these.
export http_proxy=@URL@ https_proxy=@URL@ no_proxy=@NO_PROXY@
export HTTP_PROXY=@URL@ HTTPS_PROXY=@URL@ NO_PROXY=@NO_PROXY@
# Scrapy verifies no certificate unless settings.py says
#   DOWNLOAD_VERIFY_CERTIFICATES = True
# or, where Scrapy is too old to know that (it is silent about settings that it does not know),
#   DOWNLOADER_CLIENTCONTEXTFACTORY = "scrapy.core.downloader.contextfactory.BrowserLikeContextFactory"
# and then trusts what is here:
export SSL_CERT_FILE=@CERTIFICATE@
