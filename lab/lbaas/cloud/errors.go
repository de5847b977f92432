package cloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"
)

// What waiting for a balancer can come to.
var (
	errGone   = errors.New("it is gone")
	errFailed = errors.New("it is in ERROR")
	errStuck  = errors.New("it stays PENDING")
)

func isGone(err error) bool {
	return errors.Is(err, errGone) || gophercloud.ResponseCodeIs(err, http.StatusNotFound)
}

// isUnsupported tells of a provider that cannot do what was asked, whoever asks.
func isUnsupported(err error) bool { return gophercloud.ResponseCodeIs(err, http.StatusNotImplemented) }

// isConflict tells of a balancer that is busy, or of a name or port that is taken.
func isConflict(err error) bool { return gophercloud.ResponseCodeIs(err, http.StatusConflict) }

// isUnclear tells of a request that may have been obeyed all the same: no answer came, or one from somewhere in between.
func isUnclear(err error) bool {
	switch status(err) {
	case 0:
		var request *url.Error
		return errors.As(err, &request) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// status is the HTTP status of an error; 0: there is none.
func status(err error) int {
	var code gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &code) {
		return code.Actual
	}
	return 0
}

// fault is an answer that is no success, as people read it.
type fault struct {
	status int
	text   string
	err    error
}

func (f fault) Error() string { return fmt.Sprintf("%d: %s", f.status, f.text) }
func (f fault) Unwrap() error { return f.err }

// readable puts what OpenStack says in front; gophercloud's text is mostly the request's.
func readable(err error) error {
	var known fault
	var code gophercloud.ErrUnexpectedResponseCode
	if err == nil || errors.As(err, &known) || !errors.As(err, &code) {
		return err
	}
	var says struct {
		Fault         string                   `json:"faultstring"`
		Description   string                   `json:"description"`
		NeutronError  struct{ Message string } `json:"NeutronError"`
		KeystoneError struct{ Message string } `json:"error"`
	}
	_ = json.Unmarshal(code.Body, &says) // not always JSON
	for _, text := range []string{says.Fault, says.NeutronError.Message, says.KeystoneError.Message, says.Description} {
		if text != "" {
			return fault{code.Actual, text, err}
		}
	}
	return fault{code.Actual, http.StatusText(code.Actual), err}
}
