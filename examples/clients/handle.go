package main

import (
	"fmt"
	"log"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func get(client *http.Client, url string) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		response, err := client.Get(url)
		if err != nil {
			return nil, err
		}
		refusal := response.Header.Get("Proxy-Status")
		if !strings.HasPrefix(refusal, "wayleave;") {
			return response, nil // the origin's, whatever its status
		}
		response.Body.Close()
		wait, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if err != nil || attempt == 3 {
			return nil, fmt.Errorf("refused by wayleave: %s", refusal)
		}
		time.Sleep(time.Duration(wait) * time.Second)
	}
}

func main() {
	response, err := get(http.DefaultClient, "https://example.com/")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	fmt.Println(response.StatusCode)
}
