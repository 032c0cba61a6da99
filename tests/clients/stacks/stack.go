// Fetches each URL of standard input once, and prints lines: the URL, the status and the body in hexadecimal
// digits, or the URL alone.
//
// Environment: PROXY (none: directly).
package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
)

func fetch(client *http.Client, url string) string {
	answer, err := client.Get(url)
	if err != nil {
		return url
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return url
	}
	return fmt.Sprintf("%s %d %x", url, answer.StatusCode, body)
}

func main() {
	transport := &http.Transport{}
	if proxy, err := url.Parse(os.Getenv("PROXY")); err == nil && proxy.Host != "" {
		transport.Proxy = http.ProxyURL(proxy)
	}
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	urls := bufio.NewScanner(os.Stdin)
	for urls.Scan() {
		fmt.Println(fetch(client, urls.Text()))
	}
}
