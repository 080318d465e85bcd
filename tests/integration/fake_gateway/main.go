// Command fakegateway stands in a container where Envoy would, starts at once,
// and does what its image's file /behaviour says.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

func main() {
	behaviour, err := os.ReadFile("/behaviour")
	say(err)
	fmt.Fprintf(os.Stderr, "the fake gateway is to %s\n", behaviour)
	switch string(behaviour) {
	case "exit at once":
		os.Exit(3)
	case "exit while loading":
		time.Sleep(2 * time.Second)
		fmt.Fprintln(os.Stderr, "no module today")
		os.Exit(3)
	case "stay mute": // accepts connections, and never says a word
		_, err := net.Listen("tcp", ":9901")
		say(err)
		time.Sleep(time.Hour)
	case "exit when ready":
		http.HandleFunc("/config_dump", func(http.ResponseWriter, *http.Request) { os.Exit(7) })
	case "forward":
		for port := 10000; port < 10010; port++ {
			go forward(port)
		}
		http.HandleFunc("/server_info", func(answer http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(answer, `{"version": "a fake"}`)
		})
		http.HandleFunc("/config_dump", func(answer http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(answer, `{"configs": []}`)
		})
		var updates atomic.Int64
		http.HandleFunc("/stats", func(answer http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(answer, "listener_manager.lds.update_success:", updates.Add(1))
		})
	}
	http.HandleFunc("/ready", func(answer http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(answer, "LIVE")
	})
	say(http.ListenAndServe(":9901", nil))
}

// forward hands connections on to the upstream, as they are.
func forward(port int) {
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	say(err)
	for {
		client, err := listener.Accept()
		say(err)
		server, err := net.Dial("tcp", "upstream:8080")
		if err != nil {
			_ = client.Close()
			continue
		}
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		}()
		go func() {
			_, _ = io.Copy(client, server)
			_ = client.Close()
		}()
	}
}

// say ends the program with an error, if there is one.
func say(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
