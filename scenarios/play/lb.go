package play

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"proxylab/lab"
	"proxylab/lab/lbaas/faults"
	"proxylab/scenarios"
)

// lb takes a step about load balancers.
func (s *subject) lb(ctx context.Context, step scenarios.LBStep) error {
	switch {
	case step.Fault != nil:
		return s.balancers.put(ctx, *step.Fault)
	case len(step.Clear) > 0:
		return s.balancers.clear(ctx, step.Clear)
	case step.Edit != nil:
		return s.balancers.put(ctx, faults.Fault{Name: "edit", Edit: step.Edit})
	case step.Delete != nil:
		return s.balancers.put(ctx, faults.Fault{Name: "delete", Delete: step.Delete})
	case step.Flap != nil:
		if err := s.balancers.put(ctx, faults.Fault{Name: "flap", Flap: &step.Flap.Flap}); err != nil {
			return err
		}
		if err := s.wait(ctx, step.Flap.For.Duration()); err != nil {
			return err
		}
		return s.balancers.clear(ctx, scenarios.Names{"flap"})
	case step.Kill != "":
		return s.balancers.put(ctx, faults.Fault{Name: "kill", Kill: step.Kill})
	case step.Create != nil:
		return s.createBalanced(ctx, *step.Create)
	case step.Await != nil:
		return s.awaitBalancers(ctx, *step.Await)
	}
	return fmt.Errorf("step %q cannot be played", step)
}

// createBalanced makes the Services a few at a time: somebody who creates many does not wait for each.
func (s *subject) createBalanced(ctx context.Context, c scenarios.LBCreate) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, o := range c.Objects() {
		group.Go(func() error { return s.stage.apply(ctx, []*unstructured.Unstructured{o}) })
	}
	return group.Wait()
}

func (s *subject) awaitBalancers(ctx context.Context, a scenarios.LBAwait) error {
	limit := lab.Patience(a.Within.Duration())
	if a.Members > 0 {
		return s.balancers.awaitMembers(ctx, s.publisher.names(a.Service), a.Members, limit)
	}
	return s.publisher.await(ctx, a.Service, a.Until, limit)
}

// awaitMembers returns when each pool of the Services' balancers has so many members that take traffic.
func (b *balancers) awaitMembers(ctx context.Context, services []string, want int, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		var lacking []string
		b.mu.Lock()
		changed, counts := b.changed, b.model.fewest()
		b.mu.Unlock()
		for _, name := range services {
			namespace, service := scenarios.SplitName(name)
			if n, ok := counts[namespace+"/"+service]; !ok {
				lacking = append(lacking, name+" has no pool")
			} else if n != want {
				lacking = append(lacking, fmt.Sprintf("%s has %d members that take traffic", name, n))
			}
		}
		if len(lacking) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return fmt.Errorf("after %s: %s, want %d", limit, strings.Join(few(lacking), ", "), want)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// put puts a fault on. One that is done at once is done when put returns.
func (b *balancers) put(ctx context.Context, f faults.Fault) error {
	body, err := json.Marshal(faults.Plan{Faults: []faults.Fault{f}})
	if err != nil {
		return err
	}
	return b.ask(ctx, http.MethodPost, "/proxylab/faults", body)
}

// clear puts faults off.
func (b *balancers) clear(ctx context.Context, names scenarios.Names) error {
	for _, name := range names {
		path := "/proxylab/faults"
		if name != "all" {
			path += "/" + url.PathEscape(name)
		}
		if err := b.ask(ctx, http.MethodDelete, path, nil); err != nil {
			return err
		}
	}
	return nil
}

// ask asks the server for something that is not of OpenStack's API.
func (b *balancers) ask(ctx context.Context, method, path string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, method, b.lab.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("the LBaaS refuses %s %s: %s", method, path, bytes.TrimSpace(said))
	}
	return err
}
