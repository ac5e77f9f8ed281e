package session

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"linerate/internal/core/model"
)

// codec is the form of all messages: JSON with the tags of the types themselves. What
// arrives is held against the bounds before and after it is decoded.
type codec struct {
	*shapes
	end model.Host // that the agent is; "" in the greeting
	in  *intake    // of an agent, which has scanned the message; nil at a controller
}

// newCodec returns the codec of a controller.
func newCodec(end model.Host) codec { return codec{new(shapes), end, nil} }

// Name is the codec's name in the media type of calls.
func (codec) Name() string { return "json" }

// Marshal makes bytes of a message. An agent cleans and shortens what its kernel and
// other programs say, so that it passes the controller's check.
func (c codec) Marshal(v any) ([]byte, error) {
	if c.in != nil {
		v = c.fitted(v, c.end)
	}
	return json.Marshal(v)
}

// Unmarshal makes a message of bytes. It wraps ErrInvalid. At an agent it ends the turn
// of its request.
func (c codec) Unmarshal(b []byte, v any) error {
	if c.in != nil {
		if c.in.now == nil {
			return fmt.Errorf("%T is no message of this turn", v)
		}
		defer c.in.now.leave()
	} else if _, err := c.scan(b, reflect.TypeOf(v).Elem()); err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %s", ErrInvalid, strings.TrimPrefix(err.Error(), "json: "))
	}
	check := bounds{shapes: c.shapes, end: c.end}
	check.value(reflect.ValueOf(v).Elem(), "message", rule{})
	return check.err
}
