package ipvs

import (
	"fmt"
	"net"
	"testing"
)

// listenAndAnswer serves what a backend of the bed would say, as "sshd".
func listenAndAnswer(t *testing.T, network, addr string) error {
	l, err := net.Listen(network, addr)
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "sshd %s\n", c.RemoteAddr())
			_ = c.Close()
		}
	}()
	return nil
}
