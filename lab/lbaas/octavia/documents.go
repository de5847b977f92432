package octavia

import (
	"fmt"
	"net/http"
	"strings"
)

// versionDates are the minor versions of the API v2, from v2.0 on, with the day each one came.
func versionDates() []string {
	return []string{"2016-12-11T00:00:00Z", "2018-04-20T00:00:00Z", "2018-07-31T00:00:00Z", "2018-12-18T00:00:00Z",
		"2018-12-19T00:00:00Z", "2019-01-21T00:00:00Z", "2019-01-25T00:00:00Z", "2018-01-25T12:00:00Z",
		"2019-02-12T00:00:00Z", "2019-03-04T00:00:00Z", "2019-03-05T00:00:00Z", "2019-06-24T00:00:00Z",
		"2019-09-11T00:00:00Z", "2019-09-13T00:00:00Z", "2019-11-10T00:00:00Z", "2020-03-10T00:00:00Z",
		"2020-03-15T00:00:00Z", "2020-04-29T00:00:00Z", "2020-04-29T01:00:00Z", "2020-05-12T00:00:00Z",
		"2020-08-02T00:00:00Z", "2020-09-03T00:00:00Z", "2020-09-04T00:00:00Z", "2020-09-07T00:00:00Z",
		"2020-10-15T00:00:00Z", "2021-10-02T00:00:00Z", "2022-08-29T00:00:00Z"}
}

// minorOf reads "v2.12"; "" is the newest.
func minorOf(version string) (int, error) {
	last := len(versionDates()) - 1
	if version == "" {
		return last, nil
	}
	var minor int
	if n, err := fmt.Sscanf(version, "v2.%d", &minor); err != nil || n != 1 || minor < 0 || minor > last ||
		version != fmt.Sprintf("v2.%d", minor) {
		return 0, fmt.Errorf("octavia: version %q: have v2.0 to v2.%d", version, last)
	}
	return minor, nil
}

// versions answers GET /: the last one is the current one.
func (s *Service) versions(c *call) (*answer, error) {
	minor, err := minorOf(s.Knobs().Version)
	if err != nil {
		return nil, err
	}
	self := strings.TrimSuffix(selfURL(c.r), "/") + "/v2"
	list := []fields{}
	for i, date := range versionDates()[:minor+1] {
		status := "SUPPORTED"
		if i == minor {
			status = "CURRENT"
		}
		list = append(list, fields{{"id", fmt.Sprintf("v2.%d", i)}, {"status", status}, {"updated", date},
			{"links", []fields{{{"href", self}, {"rel", "self"}}}}})
	}
	return &answer{http.StatusOK, fields{{"versions", list}}}, nil
}

func (s *Service) version(*call) (*answer, error) { return &answer{http.StatusOK, "v2"}, nil }

func (s *Service) healthcheck(*call) (*answer, error) {
	return &answer{http.StatusOK, fields{{"detailed", false}, {"reasons", []string{}}}}, nil
}

func (s *Service) providerList(c *call) (*answer, error) {
	if err := c.who.permit(actReadAny, ""); err != nil {
		return nil, err
	}
	list := []fields{}
	for _, p := range s.opts.Providers {
		one := fields{{"name", p.Name}, {"description", p.Description}}
		list = append(list, one.only(fieldsOf(c.query)))
	}
	return &answer{http.StatusOK, fields{{"providers", list}}}, nil
}

func (s *Service) providerCapabilities(c *call) (*answer, error) {
	if err := c.who.permit(actAdmin, ""); err != nil {
		return nil, err
	}
	if _, err := s.provider(c.id); err != nil {
		return nil, err
	}
	list := []fields{{{"name", "amp_image_tag"},
		{"description", "The glance image tag to use for this load balancer."}}}
	if c.parent == "availability_zone_capabilities" {
		list = []fields{{{"name", "compute_zone"}, {"description", "The compute availability zone."}}}
	}
	return &answer{http.StatusOK, fields{{c.parent, list}}}, nil
}

// There are no amphorae: balancers are carried by processes.

func (s *Service) amphoraList(c *call) (*answer, error) {
	if err := c.who.permit(actAdmin, ""); err != nil {
		return nil, err
	}
	return &answer{http.StatusOK, fields{{"amphorae", []fields{}}, {"amphorae_links", []fields{}}}}, nil
}

func (s *Service) amphoraShow(c *call) (*answer, error) {
	if err := c.who.permit(actAdmin, ""); err != nil {
		return nil, err
	}
	return nil, notFound("Amphora", c.id)
}

// provider gives a driver by name ("": the default one) with its features as they are now.
func (s *Service) provider(name string) (Provider, error) {
	for _, p := range s.opts.Providers {
		if p.Name != name && name != "" {
			continue
		}
		if now, changed := s.Knobs().Providers[p.Name]; changed {
			now.Name, now.Description = p.Name, p.Description
			return now, nil
		}
		return p, nil
	}
	return Provider{}, notEnabled(name)
}

func notEnabled(name string) *Error {
	return fault(http.StatusBadRequest, "Provider '%s' is not enabled.", name)
}
