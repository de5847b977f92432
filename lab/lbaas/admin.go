package lbaas

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"proxylab/lab/lbaas/faults"
)

// problems is the answer to what cannot be.
type problems struct {
	Problems []string `json:"problems"`
}

func adminReply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // who has gone away needs no answer
}

// Info is what a server is like now.
type Info struct {
	Version   string         `json:"version,omitempty"`   // advertised; "": the newest
	Quota     map[string]int `json:"quota,omitempty"`     // by the names that the API has for them
	Instances []string       `json:"instances,omitempty"` // of the data plane
	Active    string         `json:"active,omitempty"`    // the one that carries the VIPs
	Faults    []faults.State `json:"faults"`
}

// Info says what the server is like now.
func (s *Server) Info() Info {
	knobs := s.octavia.Knobs()
	info := Info{Version: knobs.Version, Quota: knobs.DefaultQuota, Faults: s.faults.List()}
	if s.plane != nil {
		info.Instances, info.Active = s.o.Instances.Names, s.plane.set.ActiveName()
	}
	return info
}

const largestPlan = 1 << 20

// putOn puts on the faults of a plan in JSON.
func (s *Server) putOn(w http.ResponseWriter, r *http.Request) {
	var p faults.Plan
	in := json.NewDecoder(io.LimitReader(r.Body, largestPlan))
	in.DisallowUnknownFields()
	if err := in.Decode(&p); err != nil {
		adminReply(w, http.StatusBadRequest, problems{Problems: []string{"this is no plan of faults: " + err.Error()}})
		return
	}
	names, err := s.plan(p)
	if err == nil {
		adminReply(w, http.StatusOK, map[string][]string{"on": names})
		return
	}
	out := problems{Problems: []string{err.Error()}}
	if invalid := (Invalid)(nil); errors.As(err, &invalid) {
		out.Problems = nil
		for _, m := range invalid {
			out.Problems = append(out.Problems, m.Error())
		}
	}
	adminReply(w, http.StatusBadRequest, out)
}
