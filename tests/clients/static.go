// Serves the files below its first argument at the address that is its second.
package main

import (
	"log"
	"net/http"
	"os"
)

func main() {
	log.Fatal(http.ListenAndServe(os.Args[2], http.FileServer(http.Dir(os.Args[1]))))
}
