package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"proxylab/lab/procs"
)

// openStack is the clients of the services that are used.
type openStack struct {
	lb      *gophercloud.ServiceClient
	network *gophercloud.ServiceClient // nil: there is none
}

// dial makes the clients. With Keystone it fails unless that answers and knows us.
func dial(ctx context.Context, e Endpoint) (*openStack, error) {
	if e.AuthURL == "" {
		return undocumented(e), nil
	}
	provider, err := openstack.NewClient(e.AuthURL)
	if err != nil {
		return nil, fmt.Errorf("authentication at %s: %w", e.AuthURL, err)
	}
	equip(provider, e)
	err = openstack.Authenticate(ctx, provider, gophercloud.AuthOptions{
		IdentityEndpoint: e.AuthURL, Username: e.Username, Password: e.Password, DomainName: e.Domain,
		Scope:       &gophercloud.AuthScope{ProjectName: e.Project, DomainName: e.Domain},
		AllowReauth: true,
	})
	if err != nil {
		return nil, fmt.Errorf("authentication at %s: %w", e.AuthURL, readable(err))
	}
	where := gophercloud.EndpointOpts{Region: e.Region}
	o := &openStack{}
	if o.lb, err = openstack.NewLoadBalancerV2(provider, where); err != nil {
		return nil, fmt.Errorf("catalogue: Octavia: %w", err)
	}
	if o.network, err = openstack.NewNetworkV2(provider, where); err != nil {
		var none *gophercloud.ErrEndpointNotFound
		if !errors.As(err, &none) {
			return nil, fmt.Errorf("catalogue: Neutron: %w", err)
		}
		o.network = nil
	}
	return o, nil
}

// undocumented uses endpoints as they are, without tokens.
func undocumented(e Endpoint) *openStack {
	provider := &gophercloud.ProviderClient{}
	equip(provider, e)
	service := func(endpoint, kind string) *gophercloud.ServiceClient {
		endpoint = strings.TrimSuffix(endpoint, "/") + "/"
		c := &gophercloud.ServiceClient{ProviderClient: provider, Type: kind, Endpoint: endpoint, ResourceBase: endpoint + "v2.0/"}
		if e.ProjectID != "" {
			c.MoreHeaders = map[string]string{"X-Project-Id": e.ProjectID}
		}
		return c
	}
	o := &openStack{lb: service(e.Octavia, "load-balancer")}
	if e.Network != "" {
		o.network = service(e.Network, "network")
	}
	return o
}

func equip(p *gophercloud.ProviderClient, e Endpoint) {
	p.UserAgent.Prepend("proxylab-" + Name)
	p.HTTPClient = http.Client{Timeout: e.RequestTimeout}
	p.UseTokenLock()
	p.RetryFunc = retrier(e.RetryPause)
}

// tries is how often a request is made that may be repeated.
const tries = 5

// retrier repeats what can do no harm: questions that got no good answer, and what a limiter has turned away. gophercloud
// calls it after each failure.
func retrier(pause time.Duration) gophercloud.RetryFunc {
	return func(ctx context.Context, method, _ string, _ *gophercloud.RequestOpts, err error, failures uint) error {
		limited := status(err) == http.StatusTooManyRequests
		if failures >= tries || ctx.Err() != nil || (!limited && (method != http.MethodGet || !isUnclear(err))) {
			return err
		}
		d := pause << (failures - 1)
		var code gophercloud.ErrUnexpectedResponseCode
		if limited && errors.As(err, &code) {
			if after, parse := time.ParseDuration(code.ResponseHeader.Get("Retry-After") + "s"); parse == nil && after > 0 {
				d = min(after, time.Minute)
			}
		}
		if procs.Sleep(ctx, d) != nil {
			return err
		}
		return nil
	}
}
