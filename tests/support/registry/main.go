// A schema registry in memory over HTTP, for tests: franz-go's fake, which speaks Confluent's REST API.
// It prints its address and ends with its standard input. Its argument, if any, is the Authorization header it asks for.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/twmb/franz-go/pkg/sr/srfake"
)

func main() {
	var options []srfake.Option
	if len(os.Args) > 1 {
		options = append(options, srfake.WithAuth(os.Args[1]))
	}
	registry := srfake.New(options...)
	defer registry.Close()
	fmt.Println(registry.URL())
	io.Copy(io.Discard, os.Stdin)
}
