package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// What is asked of the kernel directly, because the answers are short and the program nft would read more for them.
// Each opens its own socket in the network namespace of the calling thread.
type kernel interface {
	// generation is the number of the last nf_tables transaction in the network namespace, anybody's.
	generation() (uint32, error)
	// chains are the names of the chains of our table; nil: there is no such table.
	chains(v6 bool) ([]string, error)
	// rules counts the rules of each chain of our table that has any.
	rules(v6 bool) (map[string]int, error)
}

type netlinkKernel struct{}

const nfgenmsgSize = nl.SizeofNfgenmsg

func nftRequest(kind, flags int, family uint8) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: nl.NFNETLINK_V0})
	return req
}

func nfFamily(v6 bool) uint8 {
	if v6 {
		return unix.NFPROTO_IPV6
	}
	return unix.NFPROTO_IPV4
}

// attributes of a message after its header, by type.
func attributes(msg []byte) (map[uint16][]byte, error) {
	if len(msg) < nfgenmsgSize {
		return nil, fmt.Errorf("message of %d bytes", len(msg))
	}
	list, err := nl.ParseRouteAttr(msg[nfgenmsgSize:])
	if err != nil {
		return nil, err
	}
	out := make(map[uint16][]byte, len(list))
	for _, a := range list {
		out[a.Attr.Type&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER)] = a.Value
	}
	return out, nil
}

func text(b []byte) string { return strings.TrimRight(string(b), "\x00") }

func (netlinkKernel) generation() (uint32, error) {
	msgs, err := nftRequest(unix.NFT_MSG_GETGEN, 0, unix.AF_UNSPEC).Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return 0, fmt.Errorf("ask for the nf_tables generation: %w", err)
	}
	for _, m := range msgs {
		attrs, err := attributes(m)
		if err != nil {
			return 0, fmt.Errorf("nf_tables generation: %w", err)
		}
		if v := attrs[unix.NFTA_GEN_ID]; len(v) == 4 {
			return binary.BigEndian.Uint32(v), nil
		}
	}
	return 0, errors.New("the kernel names no nf_tables generation")
}

// maxDumps bounds how often a listing that a transaction interrupted is taken again.
const maxDumps = 5

// dump lists objects of a family. filter is the request's attribute that names our table, where the kernel knows one;
// tableAttr is the answer's.
func dump(kind int, v6 bool, tableAttr uint16, filter bool, each func(map[uint16][]byte)) error {
	for range maxDumps {
		req := nftRequest(kind, unix.NLM_F_DUMP, nfFamily(v6))
		if filter {
			req.AddData(nl.NewRtAttr(int(tableAttr), nl.ZeroTerminated(Table)))
		}
		msgs, err := req.Execute(unix.NETLINK_NETFILTER, 0)
		if errors.Is(err, nl.ErrDumpInterrupted) {
			continue
		}
		if err != nil {
			return err
		}
		for _, m := range msgs {
			attrs, err := attributes(m)
			if err != nil {
				return err
			}
			if text(attrs[tableAttr]) == Table {
				each(attrs)
			}
		}
		return nil
	}
	return fmt.Errorf("the rules changed during each of %d listings", maxDumps)
}

func (netlinkKernel) chains(v6 bool) (names []string, err error) {
	err = dump(unix.NFT_MSG_GETCHAIN, v6, unix.NFTA_CHAIN_TABLE, false, func(a map[uint16][]byte) {
		names = append(names, text(a[unix.NFTA_CHAIN_NAME]))
	})
	if err != nil {
		return nil, fmt.Errorf("list nf_tables chains: %w", err)
	}
	return names, nil
}

func (netlinkKernel) rules(v6 bool) (map[string]int, error) {
	count := map[string]int{}
	err := dump(unix.NFT_MSG_GETRULE, v6, unix.NFTA_RULE_TABLE, true, func(a map[uint16][]byte) {
		count[text(a[unix.NFTA_RULE_CHAIN])]++
	})
	if err != nil {
		return nil, fmt.Errorf("count nf_tables rules: %w", err)
	}
	return count, nil
}
