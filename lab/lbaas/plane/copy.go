package plane

import (
	"errors"
	"io"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// bulk is how much one direction of a connection carries before its bytes stay in the kernel. Splicing takes a pipe,
	// and that for as long as the connection says nothing too.
	bulk       = 128 << 10
	bufferSize = 32 << 10
)

// buffers are shared by connections: one that waits has none.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}}
}

// copy moves bytes from src to dst until src ends, and returns how many.
func (b *buffers) copy(dst, src *net.TCPConn) (int64, error) {
	raw, err := src.SyscallConn()
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for total < bulk {
		var buf *[]byte
		var n int
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			buf = b.pool.Get().(*[]byte)
			for n, failed = unix.Read(int(fd), *buf); errors.Is(failed, unix.EINTR); {
				n, failed = unix.Read(int(fd), *buf)
			}
			if errors.Is(failed, unix.EAGAIN) {
				b.pool.Put(buf)
				return false
			}
			return true
		})
		if err = errors.Join(err, failed); err != nil {
			return total, err
		}
		if n > 0 {
			n, err = dst.Write((*buf)[:n])
		}
		b.pool.Put(buf)
		total += int64(n)
		if err != nil || n == 0 {
			return total, err
		}
	}
	rest, err := io.Copy(dst, src)
	return total + rest, err
}
