package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// pinging is what differs between the families.
type pinging struct {
	ping, raw, any string // networks, and the address to listen on
	protocol       int    // ICMP's number
	request, reply icmp.Type
}

func pingOf(a netip.Addr) pinging {
	if a.Is4() {
		return pinging{"udp4", "ip4:icmp", "0.0.0.0", 1, ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply}
	}
	return pinging{"udp6", "ip6:ipv6-icmp", "::", 58, ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply}
}

// probePing sends an echo request, through a ping socket where this user may have one, else through a raw socket, and
// waits for its reply.
func probePing(ctx context.Context, target netip.Addr) error {
	target = target.Unmap()
	p := pingOf(target)
	c, err := icmp.ListenPacket(p.ping, p.any)
	dst := net.Addr(&net.UDPAddr{IP: target.AsSlice(), Zone: target.Zone()})
	if err != nil {
		var raw error
		if c, raw = icmp.ListenPacket(p.raw, p.any); raw != nil {
			return fmt.Errorf("ping needs root or net.ipv4.ping_group_range: %w", errors.Join(err, raw))
		}
		dst = &net.IPAddr{IP: target.AsSlice(), Zone: target.Zone()}
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	// A ping socket has an identifier of the kernel's own; a raw one hears everybody's replies. The data tell them apart.
	data := fmt.Appendf(nil, "proxylab %016x", rand.Uint64())
	m := icmp.Message{Type: p.request, Body: &icmp.Echo{ID: rand.IntN(1 << 16), Seq: 1, Data: data}}
	b, err := m.Marshal(nil)
	if err != nil {
		return err
	}
	if _, err := c.WriteTo(b, dst); err != nil {
		return err
	}
	return awaitReply(c, p, data)
}

func awaitReply(c *icmp.PacketConn, p pinging, data []byte) error {
	buf := make([]byte, 1500)
	for {
		n, _, err := c.ReadFrom(buf)
		if err != nil {
			return fmt.Errorf("no reply to ping: %w", err)
		}
		m, err := icmp.ParseMessage(p.protocol, buf[:n])
		if err != nil || m.Type != p.reply {
			continue
		}
		if e, ok := m.Body.(*icmp.Echo); ok && bytes.Equal(e.Data, data) {
			return nil
		}
	}
}
