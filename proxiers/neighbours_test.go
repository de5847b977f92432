package proxiers

import (
	"strings"
	"testing"
)

func TestNeighboursWarnings(t *testing.T) {
	for _, c := range []struct {
		name string
		n    Neighbours
		want []string // parts of one warning each
	}{
		{"alone", Neighbours{}, nil},
		{"legacy alone", Neighbours{Legacy: []string{"ip nat"}}, nil},
		{"nft alone", Neighbours{NFT: []string{"ip nat", "inet mine"}}, nil},
		{"legacy beside tables of somebody's own", Neighbours{Legacy: []string{"ip nat"}, NFT: []string{"inet mine", "ip kube-proxy"}}, nil},
		{"both back ends", Neighbours{Legacy: []string{"ip nat"}, NFT: []string{"ip6 filter"}}, []string{"both iptables-legacy and iptables-nft"}},
		{"firewalld and Calico", Neighbours{NFT: []string{"inet firewalld", "ip calico"}}, []string{"firewalld", "Calico"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.n.Warnings()
			if len(got) != len(c.want) {
				t.Fatalf("warnings %q, want %d", got, len(c.want))
			}
			for i, part := range c.want {
				if !strings.Contains(got[i], part) {
					t.Errorf("warning %q lacks %q", got[i], part)
				}
			}
		})
	}
}
