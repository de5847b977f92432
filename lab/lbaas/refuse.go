package lbaas

import (
	"encoding/json"
	"net/http"
	"regexp"

	"proxylab/lab/lbaas/openstack"
)

var anyUUID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// refuseBalancer answers with an error as Octavia gives it.
func refuseBalancer(w http.ResponseWriter, r *http.Request, status int) {
	if status == http.StatusUnauthorized {
		openstack.Unauthorized(w, r)
		return
	}
	id := anyUUID.FindString(r.URL.Path)
	if id == "" {
		id = openstack.StableID("loadbalancer", r.URL.Path)
	}
	side := "Client"
	var message string
	switch status {
	case http.StatusForbidden:
		message = "Policy does not allow this request to be performed."
	case http.StatusNotFound:
		message = "Load Balancer " + id + " not found."
	case http.StatusConflict:
		message = "Load Balancer " + id + " is immutable and cannot be updated."
	default:
		side, message = "Server", "An unexpected error occurred; this is a fault that was asked for."
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"faultcode": side, "faultstring": message, "debuginfo": nil}) // who has gone needs none
}
