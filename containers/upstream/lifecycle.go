package main

import (
	"context"
	"io"
	"os/signal"
	"syscall"
	"time"
)

// shutdownGrace bounds the graceful part of a shutdown, so that the process
// is gone within a second of SIGTERM.
const shutdownGrace = 500 * time.Millisecond

// untilTold returns a context that ends on SIGTERM or SIGINT and, when
// withParent, as soon as stdin reaches its end: a parent that was killed with
// SIGKILL cannot send a signal, but its end of the pipe closes.
func untilTold(withParent bool, stdin io.Reader) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	if withParent {
		go func() {
			// A read error means, like the end, that no parent is there.
			_, _ = io.Copy(io.Discard, stdin)
			stop()
		}()
	}
	return ctx, stop
}
