package octavia

import (
	"fmt"
	"net/http"
)

// Error is an answer of the API that is not the wanted one: the fault Octavia would give.
type Error struct {
	Status  int
	Message string

	// Octavia has two shapes: a fault, and what its framework says before a controller has been found.
	title string
}

func (e *Error) Error() string { return e.Message }

// body is the answer's, in one of the two shapes.
func (e *Error) body() any {
	if e.title != "" {
		var description any = e.Message
		if e.Message == noDescription {
			description = nil
		}
		return fields{{"code", e.Status}, {"title", e.title}, {"description", description}}
	}
	side := "Client"
	if e.Status >= http.StatusInternalServerError {
		side = "Server"
	}
	return fields{{"faultcode", side}, {"faultstring", e.Message}, {"debuginfo", nil}}
}

// noDescription stands for a null.
const noDescription = "\x00"

func fault(status int, format string, args ...any) *Error {
	return &Error{Status: status, Message: fmt.Sprintf(format, args...)}
}

// unknownPath is the answer to a path that is none of the API's: outside of the versions it has no description.
func unknownPath(versioned bool) *Error {
	e := &Error{Status: http.StatusNotFound, title: "Not Found", Message: noDescription}
	if versioned {
		e.Message = ""
	}
	return e
}

func methodNotAllowed() *Error {
	return &Error{Status: http.StatusMethodNotAllowed, title: "Method Not Allowed"}
}

// lookupFailed is a parent in a path that does not exist; the title is Octavia's.
func lookupFailed(title, id string) *Error {
	return &Error{Status: http.StatusNotFound, title: "Bad Request", Message: fmt.Sprintf("%s %s not found.", title, id)}
}

func badLimit(value string) *Error {
	return &Error{Status: http.StatusBadRequest, title: "Bad Request",
		Message: fmt.Sprintf("Supplied pagination limit '%s' is not valid.", value)}
}

func notFound(title, id string) *Error {
	return fault(http.StatusNotFound, "%s %s not found.", title, id)
}

func noSubresource(title, id string) *Error {
	return fault(http.StatusBadRequest, "%s %s not found.", title, id)
}

func immutable(title, id string) *Error {
	return fault(http.StatusConflict, "%s %s is immutable and cannot be updated.", title, id)
}

func invalidState(state, id string) *Error {
	return fault(http.StatusConflict, "Invalid state %s of loadbalancer resource %s", state, id)
}

func validation(format string, args ...any) *Error {
	return fault(http.StatusBadRequest, "Validation failure: "+format, args...)
}

func invalidOption(value any, option string) *Error {
	return fault(http.StatusBadRequest, "%s is not a valid option for %s", pyStr(value), option)
}

// invalidInput is wsme's; value is shown as Python would.
func invalidInput(field string, value any, why string) *Error {
	return fault(http.StatusBadRequest, "Invalid input for field/attribute %s. Value: '%s'. %s", field, pyStr(value), why)
}

func quotaMet(title string) *Error {
	return fault(http.StatusForbidden, "Quota has been met for resources: %s", title)
}

func forbidden() *Error {
	return fault(http.StatusForbidden, "Policy does not allow this request to be performed.")
}

func inUse(title, id string) *Error {
	return fault(http.StatusConflict, "%s %s is in use and cannot be modified.", title, id)
}

func unsupportedOption(provider, why string) *Error {
	return fault(http.StatusNotImplemented, "Provider '%s' does not support a requested option: %s", provider, why)
}

func unsupportedAction(provider, why string) *Error {
	return fault(http.StatusNotImplemented, "Provider '%s' does not support a requested action: %s", provider, why)
}
