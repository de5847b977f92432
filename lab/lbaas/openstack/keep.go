package openstack

import (
	"encoding/json"
	"time"
)

// State keeps what a cloud knows, for the next start.
type State interface {
	// Load gives what Save has kept last; nothing, without error, when there is none yet.
	Load() ([]byte, error)
	// Save replaces it, all or nothing.
	Save([]byte) error
}

// kept is a cloud as it is written down.
type kept struct {
	Secret  []byte               `json:"secret"`
	Revoked map[string]time.Time `json:"revoked,omitempty"`
	Tables  map[string][]item    `json:"tables"`
}

func (c *Cloud) load() (found bool, err error) {
	if c.o.State == nil {
		return false, nil
	}
	text, err := c.o.State.Load()
	if err != nil || len(text) == 0 {
		return false, err
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return false, err
	}
	c.secret = k.Secret
	if k.Revoked != nil {
		c.revoked = k.Revoked
	}
	for name, items := range k.Tables {
		if t := c.tables[name]; t != nil {
			for _, it := range items {
				t.put(it)
			}
		}
	}
	return len(c.secret) > 0, nil
}

// changed says that there is something to be kept. It is called with the lock held.
func (c *Cloud) changed() {
	select {
	case c.dirty <- struct{}{}:
	default: // it will be kept with what is there by then
	}
	if c.o.Floating != nil {
		c.o.Floating()
	}
}

// keep writes down what changes, one state after another, with pauses ten times as long as the writing took: what changes
// meanwhile is in the next one, and a crash loses that much.
func (c *Cloud) keep() {
	for {
		select {
		case <-c.dirty:
		case <-c.quit:
			c.save()
			return
		}
		began := time.Now()
		c.save()
		select {
		case <-time.After(max(20*time.Millisecond, 10*time.Since(began))):
		case <-c.quit:
			c.save()
			return
		}
	}
}

func (c *Cloud) save() {
	if c.o.State == nil {
		return
	}
	c.mu.Lock()
	now := c.now()
	for id, until := range c.revoked {
		if now.After(until) {
			delete(c.revoked, id)
		}
	}
	k := kept{Secret: c.secret, Revoked: c.revoked, Tables: map[string][]item{}}
	for name, t := range c.tables {
		k.Tables[name] = t.where(func(item) bool { return true })
	}
	text, err := json.Marshal(k)
	c.mu.Unlock()
	if err == nil {
		err = c.o.State.Save(text)
	}
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
}

// Close writes what is not written yet. The error is that of writing.
func (c *Cloud) Close() error {
	close(c.quit)
	c.saved.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
