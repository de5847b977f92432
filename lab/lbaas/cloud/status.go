package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider/service/helpers"
)

// addresses are a balancer's own.
func (b haveBalancer) addresses() []netip.Addr {
	var all []netip.Addr
	for _, text := range append([]string{b.Address}, ips(b.AdditionalVIPs)...) {
		if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, a.Unmap())
		}
	}
	return all
}

func ips(vips []vip) []string {
	var all []string
	for _, v := range vips {
		all = append(all, v.Address)
	}
	return all
}

// statusOf is what is published of a balancer. Where the PROXY protocol is on, or the user has chosen a host name, nobody
// may take a short cut past the balancer: with an address, ipMode says so to proxiers; a host name has no mode, and no
// address beside it that would undo it.
func statusOf(s settings, c Config, addresses []netip.Addr, refused []refusal) *corev1.LoadBalancerStatus {
	status := &corev1.LoadBalancerStatus{}
	if s.Hostname != "" {
		status.Ingress = []corev1.LoadBalancerIngress{{Hostname: s.Hostname}}
	} else {
		for _, a := range addresses {
			mode := corev1.LoadBalancerIPModeVIP
			if s.Proxy != "" {
				mode = corev1.LoadBalancerIPModeProxy
			}
			ingress := corev1.LoadBalancerIngress{IP: a.String(), IPMode: &mode}
			if s.Proxy != "" && c.EnableIngressHostname {
				ingress = corev1.LoadBalancerIngress{Hostname: hostOf(a) + "." + c.IngressHostnameSuffix}
			}
			status.Ingress = append(status.Ingress, ingress)
		}
	}
	for i := range status.Ingress {
		for _, r := range refused {
			reason := annotation + r.Reason
			status.Ingress[i].Ports = append(status.Ingress[i].Ports, corev1.PortStatus{Port: r.Port, Protocol: r.Protocol, Error: &reason})
		}
	}
	return status
}

// hostOf is an address as the first part of a name: nip.io wants dashes for IPv6.
func hostOf(a netip.Addr) string { return strings.ReplaceAll(a.String(), ":", "-") }

// ensureAndPublish does what the controller does with a Service.
func (p *pass) ensureAndPublish(ctx context.Context) error {
	status, err := p.ensure(ctx)
	if err != nil || helpers.LoadBalancerStatusEqual(&p.svc.Status.LoadBalancer, status) {
		return err
	}
	updated := p.svc.DeepCopy()
	updated.Status.LoadBalancer = *status
	if _, err := helpers.PatchService(p.client.CoreV1(), p.svc, updated); err != nil {
		return fmt.Errorf("status of Service %s: %w", p.key(), err)
	}
	return nil
}

// annotate writes the balancer's ID and address on the Service, for users and for other Services that want to share it.
func (p *pass) annotate(ctx context.Context, b haveBalancer, addresses []netip.Addr) error {
	set := map[string]any{annID: b.ID}
	if b.Name == p.base && !outside(b, p.clusterID) {
		set[annMade] = b.ID
	}
	if len(addresses) > 0 {
		set[annAddress] = addresses[0].String()
	}
	for name, value := range set {
		if p.svc.Annotations[name] == value {
			delete(set, name)
		}
	}
	return p.patchAnnotations(ctx, set)
}

// unannotate takes away what was written of a balancer that is no more, from a Service that stays.
func (p *pass) unannotate(ctx context.Context) error {
	if p.settings.Made == "" || p.settings.Made != p.settings.ID || !p.svc.DeletionTimestamp.IsZero() {
		return nil
	}
	err := p.patchAnnotations(ctx, map[string]any{annID: nil, annMade: nil, annAddress: nil})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (p *pass) patchAnnotations(ctx context.Context, set map[string]any) error {
	if len(set) == 0 {
		return nil
	}
	change, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": set}})
	if err != nil {
		return err
	}
	_, err = p.client.CoreV1().Services(p.svc.Namespace).Patch(ctx, p.svc.Name, types.MergePatchType, change, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("annotations of Service %s: %w", p.key(), err)
	}
	return nil
}

func (p *pass) key() string { return p.svc.Namespace + "/" + p.svc.Name }

// warn and say are events on the Service.

func (p *pass) warn(reason, format string, args ...any) {
	p.events.Eventf(p.svc, corev1.EventTypeWarning, reason, format, args...)
}

func (p *pass) say(reason, format string, args ...any) {
	p.events.Eventf(p.svc, corev1.EventTypeNormal, reason, format, args...)
}

// tell makes events of what is not as the user wants it, once for each state of affairs.
func (p *pass) tell(w want) {
	var all []string
	for _, n := range w.Notes {
		all = append(all, n.Reason+n.Message)
	}
	for _, r := range w.Refused {
		all = append(all, r.Error())
	}
	if p.told.same(p.svc.UID, all) {
		return
	}
	for _, n := range w.Notes {
		p.warn(n.Reason, "%s", n.Message)
	}
	for _, r := range w.Refused {
		p.warn(r.Reason, "%s", r.Error())
	}
}

// published are the addresses of a balancer as it is, for a look that changes nothing.
func (p *pass) published(ctx context.Context, b haveBalancer) ([]netip.Addr, error) {
	addresses := b.addresses()
	if p.os.network == nil || len(addresses) == 0 {
		return addresses, nil
	}
	fip, err := p.floatingAt(ctx, b.PortID)
	if err != nil || fip == nil {
		return addresses, err
	}
	public, err := netip.ParseAddr(fip.FloatingIP)
	if err != nil {
		return nil, errors.Join(errors.New("address of a floating IP"), err)
	}
	return slices.Concat([]netip.Addr{public}, addresses[1:]), nil
}
