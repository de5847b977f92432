package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// Kinds of errors, as LoadTick.ErrorsByKind names them. An HTTP answer other than 2xx is "status-" and its code.
const (
	Refused     = "refused"     // RST or ICMP port unreachable in answer to the first packet
	Reset       = "reset"       // RST on an established connection
	Timeout     = "timeout"     // nothing came in time
	NoRoute     = "no-route"    // ICMP host unreachable or prohibited, or no answer from the neighbour
	Unreachable = "unreachable" // ICMP network unreachable, or no route here
	EOF         = "eof"         // the other side closed where it owed something
	NoPort      = "no-port"     // this machine had no local port left: the generator's own limit
	Denied      = "denied"      // a rule on this machine dropped what it was to send
	Malformed   = "malformed"   // an answer that is not of the echo protocol
	Unsent      = "unsent"      // the timeout was over before the generator got to send it: its own limit
	Other       = "other"       //
)

// errUnsent is the error of a request whose time was over before it was sent.
var errUnsent = errors.New("the timeout was over before it could be sent")

// malformedError is an answer that is not of the echo protocol.
type malformedError struct{ answer string }

func (e *malformedError) Error() string {
	return fmt.Sprintf("not an answer of the echo protocol: %.80q", e.answer)
}

// statusError is an HTTP answer other than 2xx.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("HTTP status %d", int(e)) }

// kindOfErrno is the reading of what the kernel says; tcp(7), ip(7) and icmp(7) have its sources.
var kindOfErrno = map[syscall.Errno]string{
	syscall.ECONNREFUSED:  Refused,
	syscall.ECONNRESET:    Reset,
	syscall.EPIPE:         Reset,
	syscall.ECONNABORTED:  Reset,
	syscall.ETIMEDOUT:     Timeout,
	syscall.EHOSTUNREACH:  NoRoute,
	syscall.EHOSTDOWN:     NoRoute,
	syscall.ENETUNREACH:   Unreachable,
	syscall.ENETDOWN:      Unreachable,
	syscall.EADDRNOTAVAIL: NoPort,
	syscall.EADDRINUSE:    NoPort,
	syscall.EPERM:         Denied,
	syscall.EACCES:        Denied,
}

// ErrorKind classifies why a request failed. It is empty for nil.
func ErrorKind(err error) string {
	if err == nil {
		return ""
	}
	var status statusError
	if errors.As(err, &status) {
		return fmt.Sprintf("status-%d", int(status))
	}
	var malformed *malformedError
	if errors.As(err, &malformed) {
		return Malformed
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if kind, known := kindOfErrno[errno]; known {
			return kind
		}
	}
	switch {
	case errors.Is(err, errUnsent):
		return Unsent
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return EOF
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		return Timeout
	}
	return Other
}
