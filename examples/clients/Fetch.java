import java.io.FileInputStream;
import java.net.InetSocketAddress;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

public class Fetch {
    public static void main(String[] arguments) throws Exception {
        KeyStore roots = KeyStore.getInstance(KeyStore.getDefaultType());
        roots.load(null);
        try (FileInputStream pem = new FileInputStream("wayleave-state/ca/ca.crt")) {
            roots.setCertificateEntry("wayleave", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(roots);
        SSLContext tls = SSLContext.getInstance("TLS");
        tls.init(null, trust.getTrustManagers(), null);

        HttpClient client = HttpClient.newBuilder()
            .proxy(ProxySelector.of(new InetSocketAddress("127.0.0.1", 3128)))
            .sslContext(tls)
            .build();
        HttpRequest request = HttpRequest.newBuilder(URI.create("https://example.com/"))
            .header("User-Agent", "ExampleBot/1.0")
            .build();
        System.out.println(client.send(request, HttpResponse.BodyHandlers.ofString()).statusCode());
    }
}
