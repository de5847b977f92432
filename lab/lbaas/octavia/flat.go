package octavia

import (
	"encoding/json"
	"maps"
	"net/http"
)

// The kinds without states: flavors, availability zones, and the profiles of both. Only an administrator writes them.

func (s *Service) createFlat(c *call, k *kind, sent map[string]any) (*answer, error) {
	if err := c.who.permit(actAdmin, ""); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.validateFlat(k, sent); err != nil {
		return nil, err
	}
	o := s.newObject(k, k.post.fill(sent))
	if k.name == kindZone { // known by its name
		o.ID = o.name()
	}
	if o.ID == "" {
		return nil, invalidInput("name", nil, "Mandatory field missing.")
	}
	for _, other := range s.db.kinds[k.name] {
		named := k.name == kindFlavor || k.name == kindZone
		if named && other.name() == o.name() {
			return nil, fault(http.StatusConflict, "A %s of %s already exists.", k.name, o.name())
		}
	}
	if s.db.count(k.name) >= s.opts.Limits.Objects {
		return nil, quotaMet(k.title)
	}
	if s.db.where[o.ID] != "" && s.db.where[o.ID] != k.name { // a zone that is called like something's ID
		return nil, fault(http.StatusConflict, "Already an entity with that specified id.")
	}
	s.db.add(o)
	s.dirty()
	return &answer{http.StatusCreated, fields{{k.name, s.render(o)}}}, nil
}

// profileOf gives the kind of the profile that a flavor or a zone has, and the attribute that names it.
func profileOf(kind string) (profile, attribute string) {
	switch kind {
	case kindFlavor:
		return kindFlavorProfile, "flavor_profile_id"
	case kindZone:
		return kindZoneProfile, "availability_zone_profile_id"
	}
	return "", ""
}

func (s *Service) validateFlat(k *kind, sent map[string]any) error {
	if profile, attribute := profileOf(k.name); profile != "" {
		if id, ok := sent[attribute].(string); ok && s.db.get(profile, id) == nil {
			return noSubresource(s.kinds[profile].title, id)
		}
	}
	if name, ok := sent["provider_name"].(string); ok {
		if _, err := s.providerLocked(name); err != nil {
			return err
		}
	}
	for _, name := range []string{"flavor_data", "availability_zone_data"} {
		if text, ok := sent[name].(string); ok {
			var data map[string]any
			if err := json.Unmarshal([]byte(text), &data); err != nil {
				return invalidInput(name, text, "Must be valid JSON.")
			}
		}
	}
	return nil
}

func (s *Service) updateFlat(k *kind, o *object, sent map[string]any) (*answer, error) {
	if err := s.validateFlat(k, sent); err != nil {
		return nil, err
	}
	if k.name == kindFlavorProfile || k.name == kindZoneProfile {
		if s.flatUsed(o) {
			return nil, inUse(k.title, o.ID)
		}
	}
	e := s.db.edit(o)
	maps.Copy(e.Attrs, k.put.reset(sent, k.post))
	s.dirty()
	return &answer{http.StatusOK, fields{{k.name, s.render(e)}}}, nil
}

func (s *Service) removeFlat(o *object) (*answer, error) {
	if s.flatUsed(o) {
		return nil, inUse(s.kinds[o.Kind].title, o.ID)
	}
	s.db.remove(o)
	s.dirty()
	return &answer{status: http.StatusNoContent}, nil
}

// flatUsed says whether something names the object.
func (s *Service) flatUsed(o *object) bool {
	users := map[string][2]string{
		kindFlavor:        {kindBalancer, "flavor_id"},
		kindZone:          {kindBalancer, "availability_zone"},
		kindFlavorProfile: {kindFlavor, "flavor_profile_id"},
		kindZoneProfile:   {kindZone, "availability_zone_profile_id"},
	}[o.Kind]
	for _, user := range s.db.kinds[users[0]] {
		if user.text(users[1]) == o.ID {
			return true
		}
	}
	return false
}
