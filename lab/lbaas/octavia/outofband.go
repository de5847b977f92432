package octavia

import "errors"

// Settle ends the pending operations of a balancer ("": of all) as ACTIVE or, with fail, as ERROR: by hand, or because a
// fault holds them. It returns after the data plane has heard of it.
func (s *Service) Settle(balancer string, fail bool) error { return errors.New("octavia: not yet") }

// Edit changes attributes of an object behind the API's back: no validation against other objects, no PENDING state. The
// data plane follows. The attributes are those of the API, by their names.
func (s *Service) Edit(id string, attributes map[string]any) error {
	return errors.New("octavia: not yet")
}

// Remove deletes an object and what is below it behind the API's back. The data plane follows.
func (s *Service) Remove(id string) error { return errors.New("octavia: not yet") }

// SetProvisioningStatus sets an object's state behind the API's back (ACTIVE, ERROR).
func (s *Service) SetProvisioningStatus(id, status string) error {
	return errors.New("octavia: not yet")
}

// ForceMember makes a member's operating status what it says, whatever the data plane sees, until it is called with "".
// A member forced to ERROR or OFFLINE gets no traffic.
func (s *Service) ForceMember(id, status string) error { return errors.New("octavia: not yet") }

// Find gives the ID of an object of a kind ("loadbalancer", "member", ...) by name; names are not unique: all of them.
func (s *Service) Find(kind, name string) []string { return nil }
