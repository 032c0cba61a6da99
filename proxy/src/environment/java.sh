# Java reads no variable for proxies and no PEM file: properties, and a trust store. It is made anew each time, because
# one with the certificate of an earlier CA would be found wanting only later.
rm -f "$HOME/.wayleave-truststore.p12"
keytool -importcert -noprompt -alias wayleave -file @CERTIFICATE@ \
    -keystore "$HOME/.wayleave-truststore.p12" -storetype PKCS12 -storepass changeit
# The path is quoted once more because Java splits the variable itself.
export JAVA_TOOL_OPTIONS="-Dhttp.proxyHost=@HOST@ -Dhttp.proxyPort=@PORT@ \
-Dhttps.proxyHost=@HOST@ -Dhttps.proxyPort=@PORT@ \
-Dhttp.nonProxyHosts=localhost|127.*|[::1] \
'-Djavax.net.ssl.trustStore=$HOME/.wayleave-truststore.p12' \
-Djavax.net.ssl.trustStoreType=PKCS12 -Djavax.net.ssl.trustStorePassword=changeit"
