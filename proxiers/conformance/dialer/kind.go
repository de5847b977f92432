package dialer

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
)

// Kinds of failure. No pod has such a name.
const (
	Refused  = "refused"   // RST, ICMP port unreachable or administratively prohibited
	TimedOut = "timed-out" // nothing came: dropped
	NoRoute  = "no-route"  // host or network unreachable
	Reset    = "reset"     // an established connection was reset
	EOF      = "eof"       // the other side closed where it owed something
	NoPort   = "no-port"   // the source port or address was not free: this side's own limit
	Garbled  = "garbled"   // an answer that no backend gives
	Other    = "other"
)

var kindOfErrno = map[syscall.Errno]string{
	syscall.ECONNREFUSED: Refused, syscall.EACCES: Refused,
	syscall.EHOSTUNREACH: NoRoute, syscall.ENETUNREACH: NoRoute, syscall.EHOSTDOWN: NoRoute,
	syscall.ECONNRESET: Reset, syscall.EPIPE: Reset, syscall.ECONNABORTED: Reset,
	syscall.EADDRINUSE: NoPort, syscall.EADDRNOTAVAIL: NoPort,
	syscall.ETIMEDOUT: TimedOut,
}

// Kind says how an attempt failed; empty: it did not.
func Kind(err error) string {
	var errno syscall.Errno
	var timeout net.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &errno) && kindOfErrno[errno] != "":
		return kindOfErrno[errno]
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return TimedOut
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return EOF
	case errors.Is(err, errGarbled), strings.Contains(err.Error(), "malformed HTTP"):
		return Garbled
	}
	return Other
}

var errGarbled = errors.New("not an answer of a backend")

// lacking tells errors that say what the kernel has not.
func lacking(err error) bool {
	return errors.Is(err, syscall.EPROTONOSUPPORT) || errors.Is(err, syscall.ESOCKTNOSUPPORT) || errors.Is(err, syscall.EAFNOSUPPORT)
}
