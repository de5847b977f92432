package load

import (
	"fmt"
	"net"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reportICMP makes a UDP socket keep every ICMP error, with the datagram it is about (ip(7), IP_RECVERR). A socket
// otherwise has room for one, and leaves out those that it takes for passing, such as "host unreachable".
func reportICMP(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("ask for ICMP errors: %w", err)
	}
	var opt error
	err = raw.Control(func(fd uintptr) {
		if a, ok := c.LocalAddr().(*net.UDPAddr); ok && a.IP.To4() == nil {
			opt = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_RECVERR, 1)
			return
		}
		opt = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_RECVERR, 1)
	})
	if err == nil {
		err = opt
	}
	if err != nil {
		return fmt.Errorf("ask for ICMP errors: %w", err)
	}
	return nil
}

// drain takes the errors that the socket keeps and fails the requests they are about. It returns how many there were.
func (f *flow) drain() (taken int) {
	raw, err := f.conn.SyscallConn()
	if err != nil {
		return 0
	}
	// Control and not Read: the reader holds the lock that Read would wait for.
	_ = raw.Control(func(fd uintptr) {
		quoted, control := make([]byte, 2048), make([]byte, 512)
		for {
			n, controlLen, _, _, err := unix.Recvmsg(int(fd), quoted, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			if err != nil {
				return
			}
			taken++
			errno := extendedError(control[:controlLen])
			seq, ok := f.mark.seq(quoted[:n])
			if !ok {
				// The router quoted too little of it. Errors come at once, so it is likely the oldest.
				seq, ok = f.oldest()
			}
			if ok {
				f.end(seq, func(time.Time) { f.job.fail(errno) })
			}
		}
	})
	return taken
}

// extendedError reads the errno of a struct sock_extended_err; 0 where there is none.
func extendedError(control []byte) syscall.Errno {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		v4 := m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_RECVERR
		v6 := m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_RECVERR
		if (v4 || v6) && len(m.Data) >= int(unsafe.Sizeof(unix.SockExtendedErr{})) {
			return syscall.Errno((*unix.SockExtendedErr)(unsafe.Pointer(&m.Data[0])).Errno)
		}
	}
	return 0
}
