package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
)

// found is the balancers of a Service.
type found struct {
	Alive *haveBalancer
	Dying []haveBalancer // being deleted: they count for nothing but the addresses they still have
	// Namesake is a balancer of the same name that another cluster has made.
	Namesake *haveBalancer
}

// find looks for a Service's balancer, by the annotation and by name: one whose making was never answered is found by
// name, and not made twice. It fails with errGone if the balancer that the user has chosen is not there.
func (p *pass) find(ctx context.Context) (found, error) {
	var f found
	if id := p.settings.ID; id != "" {
		b, err := p.os.getBalancer(ctx, id)
		switch {
		case err == nil && b.Status != "PENDING_DELETE":
			f.Alive = &b
			return f, nil
		case err != nil && !isGone(err):
			return f, err
		case p.settings.Made != id:
			return f, fmt.Errorf("%s: load balancer %s: %w", annID, id, errGone)
		}
	}
	all, err := p.os.listBalancers(ctx, loadbalancers.ListOpts{Name: p.base})
	if err != nil {
		return f, err
	}
	return choose(all, p.base, p.clusterID)
}

// choose tells the balancers of one name apart. Two that could be the Service's are an error: nobody can know which one
// carries its traffic.
func choose(all []haveBalancer, base, clusterID string) (found, error) {
	var f found
	var alive []haveBalancer
	for _, b := range all {
		others := slices.DeleteFunc(sharers(b.Tags), func(t string) bool { return t == base })
		switch {
		case b.Name != base || b.Status == "DELETED":
		case foreignCluster(b.Tags, clusterID) != "":
			f.Namesake = &b
		case b.Status == "PENDING_DELETE":
			f.Dying = append(f.Dying, b)
		case !slices.Contains(b.Tags, base) && len(others) > 0:
			// It was ours, and others have stayed on it.
		default:
			alive = append(alive, b)
		}
	}
	if len(alive) > 1 {
		ids := make([]string, len(alive))
		for i, b := range alive {
			ids[i] = b.ID
		}
		return f, ambiguous{name: base, all: alive, text: fmt.Sprintf("%d load balancers are called %s: %s; is the cluster's name unique in the project? Delete the wrong ones, or choose one by %s",
			len(alive), base, strings.Join(ids, ", "), annID)}
	}
	if len(alive) == 1 {
		f.Alive = &alive[0]
	}
	return f, nil
}

// ambiguous tells of several balancers where there may be one.
type ambiguous struct {
	name, text string
	all        []haveBalancer
}

func (a ambiguous) Error() string { return a.text }

// create makes the balancer with all that is below it, in one request if the provider can.
func (p *pass) create(ctx context.Context, f found) (haveBalancer, error) {
	w := wanted(p.request())
	if err := w.possible(); err != nil {
		return haveBalancer{}, err
	}
	b := w.Balancer
	if b.Address != "" || b.PortID != "" {
		for _, dying := range f.Dying {
			if err := p.os.waitGone(ctx, p.conf.Wait, dying.ID); err != nil {
				return haveBalancer{}, err
			}
		}
	}
	serial := p.conf.SerialCreate || p.features.NoTree
	if !serial {
		b.Listeners = w.Listeners
	}
	p.whole = !serial
	made, err := p.post(ctx, b)
	if isUnsupported(err) && !serial {
		p.cache.lack(func(f *features) { f.NoTree = true })
		b.Listeners, p.whole = nil, false
		made, err = p.post(ctx, b)
	}
	if refusedAddress(err) && b.Address != "" && !p.settings.Address.IsValid() {
		p.warn("AddressLost", "The address %s cannot be had again: %v", b.Address, err)
		b.Address = ""
		for i := range b.AdditionalVIPs {
			b.AdditionalVIPs[i].Address = ""
		}
		made, err = p.post(ctx, b)
	}
	if err != nil {
		return made, fmt.Errorf("create load balancer %s: %w", b.Name, readable(err))
	}
	p.say("CreatedLoadBalancer", "Created load balancer %s with %d listeners", made.ID, len(b.Listeners))
	return made, nil
}

func refusedAddress(err error) bool { return isConflict(err) || status(err) == http.StatusBadRequest }

// post makes a balancer. If it is not known whether it was made, it is looked for.
func (p *pass) post(ctx context.Context, b wantBalancer) (haveBalancer, error) {
	var got struct {
		Balancer haveBalancer `json:"loadbalancer"`
	}
	err := loadbalancers.Create(ctx, p.os.lb, body{"loadbalancer", b}).ExtractInto(&got)
	if err == nil || !isUnclear(err) || ctx.Err() != nil {
		return got.Balancer, err
	}
	all, look := p.os.listBalancers(ctx, loadbalancers.ListOpts{Name: b.Name})
	if look != nil {
		return got.Balancer, errors.Join(err, look)
	}
	f, look := choose(all, p.base, p.clusterID)
	if look != nil || f.Alive == nil {
		return got.Balancer, errors.Join(err, look)
	}
	p.whole = false // nobody knows
	p.say("AdoptedLoadBalancer", "Load balancer %s was made although the request failed: %v", f.Alive.ID, readable(err))
	return *f.Alive, nil
}

// possible tells why there can be no balancer at all.
func (w want) possible() error {
	var errs []error
	if w.Balancer.PortID == "" && w.Balancer.SubnetID == "" && w.Balancer.NetworkID == "" {
		errs = append(errs, errors.New("neither subnet nor network nor port is known for the load balancer's address"))
	}
	if len(w.Listeners) == 0 {
		for _, r := range w.Refused {
			errs = append(errs, r)
		}
	}
	return errors.Join(errs...)
}

func (r refusal) Error() string { return fmt.Sprintf("port %d/%s: %s", r.Port, r.Protocol, r.Message) }
