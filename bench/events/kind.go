package events

// Kind names the payload as the log does: "runStarted", "loadTick", ... It is empty for an event without one, which
// is what a payload of a newer version looks like.
func (e Event) Kind() string {
	switch {
	case e.RunStarted != nil:
		return "runStarted"
	case e.RunEnded != nil:
		return "runEnded"
	case e.SubjectStarted != nil:
		return "subjectStarted"
	case e.SubjectEnded != nil:
		return "subjectEnded"
	case e.StepStarted != nil:
		return "stepStarted"
	case e.StepEnded != nil:
		return "stepEnded"
	case e.LoadStarted != nil:
		return "loadStarted"
	case e.LoadTick != nil:
		return "loadTick"
	case e.LoadEnded != nil:
		return "loadEnded"
	case e.Sync != nil:
		return "sync"
	case e.Usage != nil:
		return "usage"
	case e.Softirq != nil:
		return "softirq"
	case e.Programming != nil:
		return "programming"
	case e.Awaited != nil:
		return "awaited"
	case e.Swap != nil:
		return "swap"
	case e.Rules != nil:
		return "rules"
	case e.Note != nil:
		return "note"
	}
	return e.lbaasKind()
}

func (e Event) lbaasKind() string {
	switch {
	case e.LBCall != nil:
		return "lbCall"
	case e.LBState != nil:
		return "lbState"
	case e.LBPublished != nil:
		return "lbPublished"
	case e.LBFailover != nil:
		return "lbFailover"
	case e.LBFault != nil:
		return "lbFault"
	case e.PartUsage != nil:
		return "partUsage"
	case e.NodeChange != nil:
		return "nodeChange"
	}
	return ""
}
