package octavia

import (
	"context"
	"net/netip"

	"github.com/google/uuid"
)

// noNetwork is what Octavia's noop driver does: a VIP is an address that nobody has, the same for all.
type noNetwork struct{}

func (noNetwork) Allocate(_ context.Context, r VIPRequest) (VIP, error) {
	v := VIP{Address: r.Address, PortID: r.PortID, SubnetID: r.SubnetID, NetworkID: r.NetworkID}
	if r.PortID != "" && r.SubnetID == "" && !r.Address.IsValid() {
		return VIP{}, validation("VIP port's subnet could not be determined. Please specify either a VIP subnet or address.")
	}
	v.Adopted = r.PortID != ""
	if !v.Adopted {
		v.PortID = uuid.NewString()
	}
	if v.SubnetID == "" {
		v.SubnetID = uuid.NewString()
	}
	if !v.Address.IsValid() {
		v.Address = netip.AddrFrom4([4]byte{198, 0, 2, 5})
	}
	return v, nil
}

func (noNetwork) Release(context.Context, VIP) error { return nil }
