package plane

import "sync/atomic"

// counting is what a listener has carried.
type counting struct {
	connections, errors atomic.Int64
	in, out             atomic.Int64 // bytes, of connections that ended and as far as is known of others
}

func (c *counting) read(active int64) Counters {
	return Counters{
		ActiveConnections: active,
		TotalConnections:  c.connections.Load(),
		BytesIn:           c.in.Load(),
		BytesOut:          c.out.Load(),
		RequestErrors:     c.errors.Load(),
	}
}
