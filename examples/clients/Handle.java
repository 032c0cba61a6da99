import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class Handle {
    static HttpResponse<String> get(HttpClient client, HttpRequest request) throws Exception {
        for (int attempt = 1; ; attempt++) {
            HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
            String refusal = response.headers().firstValue("Proxy-Status").orElse("");
            if (!refusal.startsWith("wayleave;")) {
                return response; // the origin's, whatever its status
            }
            long wait = response.headers().firstValueAsLong("Retry-After").orElse(0);
            if (wait == 0 || attempt == 3) {
                throw new IOException("refused by wayleave: " + refusal);
            }
            Thread.sleep(wait * 1000);
        }
    }

    public static void main(String[] arguments) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create("https://example.com/")).build();
        System.out.println(get(HttpClient.newHttpClient(), request).statusCode());
    }
}
