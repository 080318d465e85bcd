package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialTimeout bounds finding and connecting to a target.
const dialTimeout = 5 * time.Second

// relaying is the line that `upstream relay` prints once all ports listen.
type relaying struct {
	Listen  map[string]string `json:"listen"` // LISTEN as asked to the actual address
	Version string            `json:"version"`
}

// relay forwards TCP connections until it is told to stop.
func relay(options relayOptions, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, stop := untilTold(options.exitWithParent, stdin)
	defer stop()
	line := relaying{Listen: map[string]string{}, Version: version}
	listeners := make([]net.Listener, len(options.forwards))
	for i, pair := range options.forwards {
		listener, err := listen("--forward", pair.listen)
		if err != nil {
			return err
		}
		defer listener.Close()
		listeners[i] = listener
		line.Listen[pair.asked] = listener.Addr().String()
	}

	relayer := &relayer{log: &eventLog{out: stderr}}
	var accepting sync.WaitGroup
	for i, pair := range options.forwards {
		accepting.Add(1)
		go func() {
			defer accepting.Done()
			relayer.accept(ctx, listeners[i], pair.target)
		}()
	}
	if err := printLine(stdout, line); err != nil {
		return err
	}
	<-ctx.Done()
	for _, listener := range listeners {
		_ = listener.Close()
	}
	accepting.Wait()
	relayer.log.event("stop -")
	return nil
}

// relayer forwards connections and numbers them.
type relayer struct {
	log      *eventLog
	sequence atomic.Uint64
}

// accept takes connections until its listener is closed, and returns when all
// of them have ended; ctx ends them.
func (r *relayer) accept(ctx context.Context, listener net.Listener, target string) {
	var open sync.WaitGroup
	defer open.Wait()
	for {
		client, err := listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // such as too many open files: passes
			r.log.event("relay - %s accept failed: %q", listener.Addr(), err)
			time.Sleep(50 * time.Millisecond)
			continue
		}
		open.Add(1)
		go func() {
			defer open.Done()
			r.connect(ctx, client, target)
		}()
	}
}

// connect joins a client to the target, or closes it when there is none.
func (r *relayer) connect(ctx context.Context, client net.Conn, target string) {
	defer client.Close()
	number := r.sequence.Add(1)
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		r.log.event("relay %d %s %s target=%s failed: %q", number, client.RemoteAddr(), client.LocalAddr(), target, err)
		return
	}
	defer server.Close()
	sent, received, err := join(ctx, client, server)
	r.log.event("relay %d %s %s target=%s closed sent=%d received=%d error=%t", number, client.RemoteAddr(), client.LocalAddr(), target, sent, received, err != nil)
}

// join copies both ways until both directions have ended, one broke, or ctx
// ends. The end of one direction is passed on and leaves the other open.
func join(ctx context.Context, client, server net.Conn) (sent, received int64, err error) {
	closeBoth := func() {
		_ = client.Close()
		_ = server.Close()
	}
	defer context.AfterFunc(ctx, closeBoth)()
	oneWay := func(to, from net.Conn) (int64, error) {
		n, err := io.Copy(to, from)
		if err == nil {
			err = endWriting(to)
		}
		if err != nil {
			closeBoth()
		}
		return n, err
	}
	var back sync.WaitGroup
	var backErr error
	back.Add(1)
	go func() {
		defer back.Done()
		received, backErr = oneWay(client, server)
	}()
	sent, err = oneWay(server, client)
	back.Wait()
	return sent, received, errors.Join(err, backErr)
}

// endWriting sends the end of a stream and keeps its other direction.
func endWriting(connection net.Conn) error {
	half, possible := connection.(interface{ CloseWrite() error })
	if !possible {
		return connection.Close()
	}
	return half.CloseWrite()
}
