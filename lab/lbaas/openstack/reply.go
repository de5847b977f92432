package openstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// problem is an answer that is an error.
type problem struct {
	status  int
	kind    string // Neutron's class of it
	message string
}

func (p *problem) Error() string { return p.message }

func problemf(status int, kind, format string, args ...any) *problem {
	return &problem{status: status, kind: kind, message: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *problem {
	return problemf(http.StatusBadRequest, "HTTPBadRequest", format, args...)
}

// reply answers with JSON; nil: without a body.
func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("X-Openstack-Request-Id", "req-"+newID())
	if body == nil {
		w.WriteHeader(status)
		return
	}
	text, err := json.Marshal(body)
	if err != nil { // it is made of what JSON has
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	replyText(w, status, text)
}

func replyText(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // who has gone away needs no answer
}

// keystoneError is the shape of Keystone's errors, and of what the other services answer to those without a token.
func keystoneError(w http.ResponseWriter, r *http.Request, status int, message string) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf("Keystone uri=%q", base(r)+"/identity"))
	}
	reply(w, status, map[string]any{"error": map[string]any{
		"code": status, "message": message, "title": http.StatusText(status),
	}})
}

// Unauthorized answers a request without a token that is good.
func Unauthorized(w http.ResponseWriter, r *http.Request) {
	keystoneError(w, r, http.StatusUnauthorized, "The request you have made requires authentication.")
}

func neutronError(w http.ResponseWriter, err error) {
	var p *problem
	if !errors.As(err, &p) {
		p = problemf(http.StatusInternalServerError, "HTTPInternalServerError", "%v", err)
	}
	reply(w, p.status, map[string]any{"NeutronError": map[string]any{
		"type": p.kind, "message": p.message, "detail": "",
	}})
}

const largestBody = 1 << 20

// body reads the object under root in a request's body.
func body(r *http.Request, root string) (item, error) {
	text, err := io.ReadAll(io.LimitReader(r.Body, largestBody+1))
	switch {
	case err != nil:
		return nil, badRequest("The request body could not be read.")
	case len(text) > largestBody:
		return nil, problemf(http.StatusRequestEntityTooLarge, "HTTPRequestEntityTooLarge", "The body of this request was too large.")
	}
	var whole map[string]any
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, badRequest("Malformed request body")
	}
	inner, ok := whole[root].(map[string]any)
	if !ok {
		return nil, badRequest("Unable to find '%s' in request body", root)
	}
	return inner, nil
}

// base is where a client has reached this server.
func base(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// segments are the parts of a path.
func segments(path string) []string {
	return strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
}

// RefuseIdentity answers with an error as Keystone gives it.
func RefuseIdentity(w http.ResponseWriter, r *http.Request, status int) {
	message := "An unexpected error prevented the server from fulfilling your request."
	switch status {
	case http.StatusUnauthorized:
		message = "The request you have made requires authentication."
	case http.StatusForbidden:
		message = "You are not authorized to perform the requested action."
	case http.StatusNotFound:
		message = "The resource could not be found."
	case http.StatusConflict:
		message = "Conflict occurred attempting to store it."
	}
	keystoneError(w, r, status, message)
}

// RefuseNetwork answers with an error as Neutron gives it.
func RefuseNetwork(w http.ResponseWriter, r *http.Request, status int) {
	if status == http.StatusUnauthorized {
		Unauthorized(w, r)
		return
	}
	kind, message := "HTTPInternalServerError", "Request Failed: internal server error while processing your request."
	switch status {
	case http.StatusForbidden:
		kind, message = "PolicyNotAuthorized", "It is disallowed by policy."
	case http.StatusNotFound:
		kind, message = "HTTPNotFound", "The resource could not be found."
	case http.StatusConflict:
		kind, message = "StateInvalid", "Unable to complete operation: it is being changed by another request."
	}
	neutronError(w, &problem{status, kind, message})
}
