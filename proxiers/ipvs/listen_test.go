package ipvs

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"proxylab/proxiers/ipvs/kernel"
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

// key reads what kernel.Key prints.
func key(s string) kernel.Key {
	protocol, addr, _ := strings.Cut(s, " ")
	return kernel.Key{Addr: netip.MustParseAddrPort(addr), Protocol: corev1.Protocol(protocol)}
}
