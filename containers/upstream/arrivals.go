package main

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// arrivals notices requests that never reach the handler: net/http answers
// what it cannot parse (TLS or HTTP/2 to this port, oversized headers) by
// itself, and the journal would know nothing of it.
type arrivals struct {
	journal *Journal

	mu      sync.Mutex
	pending map[net.Conn]uint64 // connection to the epoch of a request not begun yet
}

func newArrivals(journal *Journal) *arrivals {
	return &arrivals{journal: journal, pending: map[net.Conn]uint64{}}
}

type connectionKey struct{}

// remember is the server's ConnContext: begin finds the connection there.
func (a *arrivals) remember(ctx context.Context, connection net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, connection)
}

// watch is the server's ConnState. A connection becomes active when the first
// bytes of a request were read, well-formed or not, and before the handler.
func (a *arrivals) watch(connection net.Conn, state http.ConnState) {
	switch state {
	case http.StateActive:
		epoch := a.journal.arrive()
		a.mu.Lock()
		a.pending[connection] = epoch
		a.mu.Unlock()
	case http.StateClosed:
		if epoch, pending := a.take(connection); pending {
			a.journal.lose(epoch)
		}
	}
}

// claim says that the request pending on a connection reached the handler.
func (a *arrivals) claim(ctx context.Context) {
	connection, _ := ctx.Value(connectionKey{}).(net.Conn)
	a.take(connection)
}

func (a *arrivals) take(connection net.Conn) (epoch uint64, pending bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	epoch, pending = a.pending[connection]
	delete(a.pending, connection)
	return epoch, pending
}
