package web

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/tmaxmax/go-sse"
)

// How often a live page is brought up to date: as often as at most this share of a processor allows, and not more often
// than fastest. Someone who watches must not be felt by what is measured.
const (
	shareOfProcessor = 0.02
	fastest          = time.Second
	slowest          = 5 * time.Second
)

// live sends the parts of a run's page that have changed, until the run has ended or the visitor is gone. A visitor that is
// slow gets fewer updates, never a queue of them.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if _, err := s.store.run(id); err != nil {
		s.fail(w, id, err)
		return
	}
	session, err := sse.Upgrade(w, r)
	if err != nil {
		s.refuse(w, http.StatusInternalServerError, "Live updates are not possible here: "+err.Error())
		return
	}
	sent := map[string]string{} // part -> what the page has
	seen := int64(-1)
	for last := false; ; {
		shown, version, took, err := s.look(id)
		if err != nil {
			s.options.Log.Debug("a live page ends", "run", id, "error", err)
			return
		}
		over := !shown.Live
		if version != seen || over {
			if send(session, "parts", changed(shown.Parts, sent)) != nil {
				return
			}
			seen = version
		} else if send(session, "still", nil) != nil { // so that a visitor that is gone is noticed
			return
		}
		if over || last {
			_ = send(session, "end", nil) // it is over either way
			return
		}
		wait := min(max(fastest, time.Duration(float64(took)/shareOfProcessor)), slowest)
		select {
		case <-r.Context().Done():
			return
		case <-s.closing:
			last = true
		case <-time.After(wait):
		}
	}
}

// changed are the parts that the page does not have yet, which it has from now on.
func changed(parts []part, sent map[string]string) []part {
	out := []part{}
	for _, p := range parts {
		if sent[p.ID] != string(p.HTML) {
			sent[p.ID] = string(p.HTML)
			out = append(out, p)
		}
	}
	return out
}

func send(session *sse.Session, kind string, parts []part) error {
	m := &sse.Message{Type: sse.Type(kind)}
	data, err := json.Marshal(parts)
	if err != nil {
		return err
	}
	m.AppendData(string(data))
	if err := session.Send(m); err != nil {
		return err
	}
	return session.Flush()
}
