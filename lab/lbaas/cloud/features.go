package cloud

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/apiversions"
)

// features are what the API in front of us can do. Its version says most of it; what a provider refuses is learned when it
// does.
type features struct {
	Minor int // the version is 2.Minor

	NoTree, NoBatch, NoMonitors, NoUDP bool // refused by the provider with 501
}

// By the version that brought them.

func (f features) timeouts() bool       { return f.Minor >= 1 }
func (f features) tags() bool           { return f.Minor >= 5 }
func (f features) flavors() bool        { return f.Minor >= 6 }
func (f features) cidrs() bool          { return f.Minor >= 12 }
func (f features) zones() bool          { return f.Minor >= 14 }
func (f features) httpOnUDP() bool      { return f.Minor >= 16 }
func (f features) proxyV2() bool        { return f.Minor >= 22 }
func (f features) sctp() bool           { return f.Minor >= 23 }
func (f features) additionalVIPs() bool { return f.Minor >= 26 }

// learned is how long what is known of the API is believed: it can be upgraded, and providers exchanged.
const learned = time.Minute

// featureCache remembers the features of the API. It may be used by several goroutines.
type featureCache struct {
	now func() time.Time

	mu    sync.Mutex
	until time.Time
	known features
}

// get asks the API for its version when the last answer is old.
func (c *featureCache) get(ctx context.Context, lb *gophercloud.ServiceClient) (features, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now().Before(c.until) {
		return c.known, nil
	}
	page, err := apiversions.List(lb).AllPages(ctx)
	if err != nil {
		return features{}, fmt.Errorf("version of Octavia: %w", readable(err))
	}
	versions, err := apiversions.ExtractAPIVersions(page)
	if err != nil {
		return features{}, fmt.Errorf("version of Octavia: %w", err)
	}
	minor, err := current(versions)
	if err != nil {
		return features{}, err
	}
	c.known, c.until = features{Minor: minor}, c.now().Add(learned)
	return c.known, nil
}

// lack notes that a provider refused something.
func (c *featureCache) lack(note func(*features)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	note(&c.known)
}

// current is the minor number of the version in force: Octavia puts it last.
func current(versions []apiversions.APIVersion) (int, error) {
	if len(versions) == 0 {
		return 0, errors.New("no version is told by Octavia")
	}
	id := versions[len(versions)-1].ID
	major, minor, _ := strings.Cut(strings.TrimPrefix(id, "v"), ".")
	n, err := strconv.Atoi(minor)
	if major != "2" || (minor != "" && err != nil) {
		return 0, fmt.Errorf("version %q of Octavia is not 2.x", id)
	}
	return n, nil
}
