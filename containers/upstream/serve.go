package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// lastLines bounds the wait, at the end, for the log of broken-off attempts.
const lastLines = 100 * time.Millisecond

// serving is the line that `upstream serve` prints once both ports listen.
type serving struct {
	Model   string `json:"model"`
	Control string `json:"control"`
	Version string `json:"version"`
}

// serve runs the mock provider until it is told to stop.
func serve(options serveOptions, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, stop := untilTold(options.exitWithParent, stdin)
	defer stop()
	modelListener, err := listen("--model", options.model)
	if err != nil {
		return err
	}
	defer modelListener.Close()
	controlListener, err := listen("--control", options.control)
	if err != nil {
		return err
	}
	defer controlListener.Close()

	events := &eventLog{out: stderr}
	journal := newJournal()
	model := newModelServer(ctx, journal, events, options.maxBody)
	control := newControlServer(ctx, journal, events, options.listeners)
	failed := make(chan error, 2)
	go func() { failed <- model.Serve(modelListener) }()
	go func() { failed <- control.Serve(controlListener) }()
	if err := printLine(stdout, serving{modelListener.Addr().String(), controlListener.Addr().String(), version}); err != nil {
		return err
	}
	events.event("start - model=%s control=%s version=%s", modelListener.Addr(), controlListener.Addr(), version)
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	stop() // requests that hang end now
	shutDown(model, control)
	// Connections closed without an answer are no longer the servers': see
	// their attempts logged too.
	_, _ = journal.read(context.Background(), nil, lastLines)
	events.event("stop -")
	return err
}

// shutDown lets requests in progress finish for shutdownGrace, then closes
// every connection.
func shutDown(servers ...*http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	var all sync.WaitGroup
	for _, server := range servers {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := server.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
				_ = server.Close()
			}
		}()
	}
	all.Wait()
}
