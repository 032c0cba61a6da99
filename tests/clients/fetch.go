// Fetches the URL of its argument with the environment's proxy and roots, and prints status and body.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	answer, err := http.Get(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Status, string(body))
}
