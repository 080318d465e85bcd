package main

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines is a log that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// relayTo starts a relay to target; the returned function stops it and waits.
func relayTo(t *testing.T, target string) (address string, log *lines, stop func()) {
	t.Helper()
	listener := onLoopback(t)
	ctx, cancel := context.WithCancel(context.Background())
	log = &lines{}
	ended := make(chan struct{})
	go func() {
		(&relayer{log: &eventLog{out: log}}).accept(ctx, listener, target)
		close(ended)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		_ = listener.Close()
		<-ended
	})
	t.Cleanup(stop)
	return listener.Addr().String(), log, stop
}

func onLoopback(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	_ = connection.SetDeadline(time.Now().Add(10 * time.Second))
	return connection.(*net.TCPConn)
}

// TestRelayHalfClose: the server answers only after the end of the request,
// and the client still reads when it has ended its own direction.
func TestRelayHalfClose(t *testing.T) {
	server := onLoopback(t)
	go func() {
		connection, err := server.Accept()
		if err != nil {
			return
		}
		data, _ := io.ReadAll(connection)
		_, _ = connection.Write([]byte(strings.ToUpper(string(data))))
		_ = connection.Close()
	}()
	address, log, _ := relayTo(t, server.Addr().String())
	client := dial(t, address)
	_, _ = client.Write([]byte(strings.Repeat("abc", 100_000)))
	_ = client.CloseWrite()
	if answer := readAll(client); answer != strings.Repeat("ABC", 100_000) {
		t.Errorf("got %d bytes", len(answer))
	}
	eventually(t, "the log says so", func() bool {
		return strings.Contains(log.String(), "closed sent=300000 received=300000 error=false")
	})
}

func TestRelayHTTP(t *testing.T) {
	r := newRig(t, 1000)
	r.put(`{"after":{"status":200,"json_body":"hello"}}`)
	address, _, _ := relayTo(t, r.model)
	for range 3 {
		if status, _, body := r.call("POST", address+"/x", "{}"); status != 200 || body != `"hello"` {
			t.Errorf("%d %s", status, body)
		}
	}
	if attempts := r.journal("").Attempts; len(attempts) != 3 || attempts[0].Host != address || attempts[0].ArrivedOn != r.model {
		t.Errorf("%+v", attempts)
	}
}

func TestRelayWithoutTarget(t *testing.T) {
	gone := onLoopback(t)
	_ = gone.Close()
	address, log, _ := relayTo(t, gone.Addr().String())
	if answer := readAll(dial(t, address)); answer != "" {
		t.Errorf("got %q", answer)
	}
	eventually(t, "the log says so", func() bool {
		return strings.Contains(log.String(), "target="+gone.Addr().String()+" failed:")
	})
}

func TestRelayStopsWithOpenConnections(t *testing.T) {
	server := onLoopback(t)
	address, _, stop := relayTo(t, server.Addr().String())
	client := dial(t, address)
	peer, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	begin := time.Now()
	stop()
	if answer := readAll(client); answer != "" || time.Since(begin) > time.Second {
		t.Errorf("got %q after %v", answer, time.Since(begin))
	}
}
