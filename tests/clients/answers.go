// Fetches each URL of standard input once, checks no certificate, and prints JSON lines {"url", "status", "body"}, or {"url", "error"}.
//
// Environment: ADDRESS (of every host).
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"
)

func fetch(client *http.Client, url string) map[string]any {
	answer, err := client.Get(url)
	if err != nil {
		return map[string]any{"url": url, "error": err.Error()}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return map[string]any{"url": url, "error": err.Error()}
	}
	return map[string]any{"url": url, "status": answer.StatusCode, "body": string(body)}
}

func main() {
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, os.Getenv("ADDRESS"))
	}
	transport := &http.Transport{
		DialContext:       dial,
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	}
	client := &http.Client{Transport: transport, Timeout: 60 * time.Second}
	urls := bufio.NewScanner(os.Stdin)
	for urls.Scan() {
		line, err := json.Marshal(fetch(client, urls.Text()))
		if err != nil {
			log.Fatal(err)
		}
		os.Stdout.Write(append(line, '\n'))
	}
}
