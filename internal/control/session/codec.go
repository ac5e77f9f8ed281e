package session

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"linerate/internal/core/model"
)

// codec encodes all messages as JSON with the tags of the types themselves. It checks what
// arrives against the bounds before and after decoding.
type codec struct {
	*shapes
	end model.Host // the agent's end; "" in the greeting
	in  *intake    // of an agent, which has scanned the message; nil in a controller
}

// newCodec returns a controller's codec.
func newCodec(end model.Host) codec { return codec{new(shapes), end, nil} }

// Name returns the codec's name in the media type of calls.
func (codec) Name() string { return "json" }

// Marshal encodes a message. An agent cleans and shortens texts from its kernel and other
// programs, so that they pass the controller's check.
func (c codec) Marshal(v any) ([]byte, error) {
	if c.in != nil {
		v = c.fitted(v, c.end)
	}
	return json.Marshal(v)
}

// Unmarshal decodes a message. Its error wraps ErrInvalid. In an agent it ends the turn of its
// request.
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
