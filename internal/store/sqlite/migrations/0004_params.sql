-- What belongs to one engine only is one object of its own, "params", that nobody
-- else reads; until here a flow had a field for each engine. What happens before
-- the warm-up, and how many points there are, is every flow's.

CREATE TEMP TABLE moved AS
SELECT 'plan' AS place, pk, json_extract(plan_json, '$.flow') AS flow FROM sessions
UNION ALL
SELECT 'run', pk, flow_json FROM runs;

UPDATE moved SET flow = CASE
    WHEN json_type(flow, '$.loaded') = 'object' AND json_type(flow, '$.udp') = 'object' THEN
        json_set(flow, '$.params', json_object(
            'engine', coalesce(json_extract(flow, '$.loaded.engine'), ''), 'load', json_extract(flow, '$.udp')))
    WHEN json_type(flow, '$.loaded') = 'object' THEN
        json_set(flow, '$.params', json_object('engine', coalesce(json_extract(flow, '$.loaded.engine'), '')))
    WHEN json_type(flow, '$.udp') = 'object' THEN json_set(flow, '$.params', json_extract(flow, '$.udp'))
    WHEN json_type(flow, '$.requests') = 'object' THEN json_set(flow, '$.params', json_extract(flow, '$.requests'))
    WHEN json_type(flow, '$.copy') = 'object' THEN json_set(flow, '$.params', json_extract(flow, '$.copy'))
    WHEN json_type(flow, '$.sweep') = 'object' THEN
        json_set(flow, '$.params', json_extract(flow, '$.sweep'),
            '$.points', coalesce(json_array_length(flow, '$.sweep.sizes'), 0))
    ELSE flow END
WHERE json_type(flow) = 'object';

UPDATE moved SET flow = json_set(flow, '$.lead_ns', json_extract(flow, '$.loaded.idle_ns'))
WHERE json_type(flow) = 'object' AND json_extract(flow, '$.loaded.idle_ns') > 0;

UPDATE moved SET flow = json_remove(flow, '$.udp', '$.sweep', '$.requests', '$.loaded', '$.copy')
WHERE json_type(flow) = 'object';

UPDATE sessions SET plan_json = json_set(plan_json, '$.flow', json(
    (SELECT flow FROM moved WHERE place = 'plan' AND moved.pk = sessions.pk)))
WHERE json_type(plan_json, '$.flow') = 'object';

UPDATE runs SET flow_json = (SELECT flow FROM moved WHERE place = 'run' AND moved.pk = runs.pk)
WHERE json_type(flow_json) = 'object';

DROP TABLE moved;
